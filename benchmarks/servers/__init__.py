"""Language servers on the same files: what each answers, and how long it takes from a change to what it says of it."""
