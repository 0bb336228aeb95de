#!/bin/sh
# Makes what docker-compose.yml needs: keys, an access token, passwords. Keys and passwords that exist stay.
# Needs `veilcam` on the PATH, or Docker and the image. As root, so that the container's user can read the secrets.
set -eu
cd "$(dirname "$0")"
umask 077
NAME=${1:-gate}

run_veilcam() {
  if command -v veilcam >/dev/null 2>&1; then
    veilcam "$@"
  else
    terminal=
    [ -t 0 ] && terminal=-t
    docker run --rm -i $terminal --network none --user "$(id -u):$(id -g)" -e VEILCAM_PASSPHRASE -v "$PWD:/work" -w /work \
      "veilcam:${VEILCAM_TAG:-latest}" "$@"
  fi
}

random() { head -c 24 /dev/urandom | base64 | tr '+/' '-_'; }
hash() { printf %s "$(cat "$1")" | openssl dgst -binary -sha256 | openssl base64; }

mkdir -p secrets keys state/caddy
[ -f "keys/$NAME.camera" ] || run_veilcam keys camera "keys/$NAME"
[ -f keys/custodian.recipient ] || run_veilcam keys recipient keys/custodian
[ -f veilcam.schema.json ] || run_veilcam config schema -o veilcam.schema.json # for editors of camera.yaml
cp -f "keys/$NAME.camera" secrets/camera_key
cp keys/custodian.recipient config/custodian.recipient
chmod 644 config/custodian.recipient
for name in access_token worker_token turn_password mediamtx_camera mediamtx_viewer; do
  [ -f "secrets/$name" ] || random > "secrets/$name"
done
[ -f secrets/mqtt_passwords ] || : > secrets/mqtt_passwords
cp -f secrets/access_token secrets/metrics_token
cp -f secrets/worker_token secrets/metrics_worker_token
{ cat config/turnserver.conf; echo "user=veilcam:$(cat secrets/turn_password)"; } > secrets/turnserver
sed -e "s|@CAMERA@|$(hash secrets/mediamtx_camera)|" -e "s|@VIEWER@|$(hash secrets/mediamtx_viewer)|" \
  config/mediamtx.yml > secrets/mediamtx

own() { # user, files
  user=$1
  shift
  if [ "$(id -u)" -eq 0 ]; then chown "$user:$user" "$@"; else echo "as root: chown $user deploy: $*" >&2; fi
}
chmod 400 secrets/*
own 10001 secrets/camera_key secrets/access_token secrets/worker_token secrets/turn_password
own 10002 state/caddy
own 10003 secrets/mediamtx
own 1883 secrets/mqtt_passwords
own 65534 secrets/turnserver secrets/metrics_token secrets/metrics_worker_token
echo "access token: deploy/secrets/access_token"
echo "MOVE deploy/keys/custodian.identity to the custodian and keep a copy in a second place: it opens recordings."
