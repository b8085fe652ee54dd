"""Ids, errors, records, seeds and plug-in lookup: the basis of every other package."""
