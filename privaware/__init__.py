"""privaware"""
