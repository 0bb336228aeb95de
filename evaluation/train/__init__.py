"""What needs the extra ``train``: attackers that are trained, and the rivals of the speed part."""
