package conn

// Calls in both directions on one connection (RFC 8167). Each direction has a
// role of its own at either end, with its own XIDs, credits and receives: those
// of a connection are its directions' together, and a message takes one of its
// own direction's. Inbound tells the directions apart.
