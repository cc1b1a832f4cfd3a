"""What the steps stand on, and the pipeline too: settings, durable files, tables of problems, requests to models."""
