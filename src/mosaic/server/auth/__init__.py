"""Access control: token, allowed hosts and the rule for policies that run programs."""
