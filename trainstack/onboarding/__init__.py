"""Onboarding of projects, teams, and objects that were created by hand.

Read `new_team.py` before you edit, and `adopt/plan.py` for `trainstack adopt`.
"""
