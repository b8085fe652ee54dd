"""Behaviour cloning, alone and with an expert that is asked during rollouts (DAgger)."""
