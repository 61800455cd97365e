"""What bills say of GPU machines, as prices per hour; see docs/billing.md."""
