"""Version of this package; defined only here."""

VERSION = "0.1.0"
