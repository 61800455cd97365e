"""GPU machines in bills, as prices per hour; see docs/billing.md."""
