"""The annotators' desk: judging the items of a build in the browser, on the page's server and with its look."""
