"""What is remembered: two small files that a person can edit, and in the ledger what is known about each of their entries."""
