"""Billing exports: what the clouds write down, into one table of charges."""
