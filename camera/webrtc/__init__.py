"""WebRTC egress: a WHEP endpoint that hands the already encoded stream to any number of viewers."""
