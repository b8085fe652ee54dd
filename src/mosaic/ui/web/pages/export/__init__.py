"""Export page: trained policies as files for other programs."""
