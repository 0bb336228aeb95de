"""The command line: one file per command group, heavy imports inside the commands."""
