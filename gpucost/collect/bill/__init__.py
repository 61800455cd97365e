"""Billing exports of the clouds, loaded into one table of charges."""
