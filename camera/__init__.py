"""The camera: from pictures to a protected, signed, sealed stream and out to viewers and files.

sources/         files, folders, devices, network cameras, a synthetic scene
pipeline.py      capture, protect, publish on three threads (stage_queue.py, workers.py, stats.py)
publisher.py     both layers of one picture (cutter.py: when a segment begins; sealed_layer.py: the original)
broadcast.py     bounded fan-out to sinks
recorder.py      fragmented MP4 on disk (retention.py: for how long)
webrtc/          WHEP: live viewers
events.py        what happens, in and out (events_watch.py, detections.py); access_log.py: who looked
recordings.py    recordings by segments for the page (recordings_api.py)
http.py          page, health, metrics, access rules (page.py, state.py, access.py ...)
service.py       all of it as one camera
protect_file.py  the same pipeline, one file in, one file out
settings.py      the configuration of one camera (settings_file.py, settings_check.py)
"""
