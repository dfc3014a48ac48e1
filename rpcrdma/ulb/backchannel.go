package ulb

// Opened is how a call and its reply opened a back channel.
type Opened uint8

const (
	// NotOpened means that they opened none.
	NotOpened Opened = iota
	// OpenedSession means that CREATE_SESSION made the connection the session's
	// back channel (RFC 8881 §18.36).
	OpenedSession
	// OpenedBind means that BIND_CONN_TO_SESSION did (RFC 8881 §18.34).
	OpenedBind
)

const (
	connBackChan = 0x2 // CREATE_SESSION4_FLAG_CONN_BACK_CHAN
	dirBack      = 0x2 // CDFS4_BACK, a bit of channel_dir_from_server4
)
