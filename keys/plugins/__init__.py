"""Key plug-ins that ship with veilcam; `example` shows how to write one."""
