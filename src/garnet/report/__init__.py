"""One self-contained HTML file that shows what was found: of a purification, an audit, a study or a trained model."""
