"""The annotation desk: annotators judge the items of a build in the browser."""
