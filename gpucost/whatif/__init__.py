"""Scenarios: each edits a fleet or its prices; `cost.fleet_costs` prices the result."""
