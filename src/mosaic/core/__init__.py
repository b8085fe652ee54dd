"""Ids, errors, records, seeds and plug-in lookup: what every other package stands on."""
