"""The server behind ``veilcam worker``: detectors and ONNX models over the Open Inference Protocol."""
