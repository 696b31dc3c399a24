"""Conditions: their types and reasons, and what each reason means."""
