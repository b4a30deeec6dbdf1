"""Beyond the paper: romco-auto against everything tuned in hindsight."""
