"""Shared by the curation steps and the pipeline: settings, durable files, tables of problems, requests to models."""
