"""Trying out detection on edge workers on one machine: worker processes, clips, pictures of what happened."""
