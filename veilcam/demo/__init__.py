"""`veilcam demo`: everything the product does, once, on the shipped clip, through its real commands."""
