"""What a change would save: a question for each scenario, on usage in the store or on a described fleet."""
