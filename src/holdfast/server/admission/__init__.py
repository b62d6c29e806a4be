"""Admission: sign-ins, resumes, bans, and the limits on new connections."""
