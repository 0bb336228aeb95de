"""Stand-ins and instruments that several tests share. No test in here."""
