"""Scenarios: each edits a fleet or its prices, and the attribution stages say what that costs. No second cost formula exists."""
