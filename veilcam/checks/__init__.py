"""What `veilcam doctor` looks at: each check is a function without arguments that gives findings."""
