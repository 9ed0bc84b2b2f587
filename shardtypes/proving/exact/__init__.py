"""Exact arithmetic: a program on numbers of a finite field, where an identity that holds at random points holds
everywhere."""
