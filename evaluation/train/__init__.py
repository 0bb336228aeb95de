"""Attackers that are trained against a protector. Needs the extra ``train``."""
