"""Watching a job while it trains: its pods, the reasons why they wait, their restarts and what they use."""
