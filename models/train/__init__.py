"""Training of the networks in ``models/weights``. Needs the ``train`` extra; never imported at run time."""
