"""What makes notebooks a course: quiz cells, lab generator, lint, notebook checks and the site extension."""
