"""Checker of the Env contract for plug-in authors."""
