"""The summary of a report, sent to people: Slack, any webhook, mail."""
