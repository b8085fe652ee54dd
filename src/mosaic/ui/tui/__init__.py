"""Terminal app: the whole workbench over ssh."""
