"""Reports on a purification, an audit, a trained model or a study, each one self-contained HTML file."""
