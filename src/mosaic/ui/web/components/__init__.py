"""Components that several pages share: layout, widgets, forms, live charts."""
