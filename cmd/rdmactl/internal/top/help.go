package top

// helpText are the keys and the columns.
var helpText = []keyHint{
	{"↑ ↓ j k PgUp PgDn Home End", "choose a connection, or scroll"},
	{"enter", "details of the connection; esc goes back"},
	{"← → or < >", "sort by the column before or after"},
	{"r", "reverse the order"},
	{"/", "show only connections with a text; esc shows all"},
	{"space or p", "pause; nothing is lost while the screen stands still"},
	{"s", "change a setting: choose it and the scope, see a dry run, then make the change"},
	{"d", "drain the connection: its calls finish, then it is disconnected"},
	{"x", "close the connection at once"},
	{"ctrl+z", "suspend"},
	{"q or ctrl+c", "quit"},
	{"", ""},
	{"MB IN, MB OUT", "10^6 bytes per second into rdmad and from it: Sends, RDMA Reads and Writes"},
	{"READ/S, WRITE/S", "RDMA Reads and Writes that rdmad makes, per second"},
	{"SEND/S, INV/S", "Sends, and those that invalidate a steering tag of the peer, per second"},
	{"CRED, BUSY", "credits granted; calls in progress"},
	{"ERR", "messages refused or answered with a transport error, since the start"},
}

// helpKeys is the width of the column of keys.
const helpKeys = 28

// helpLines has what keys do beside them, or below where that is too narrow.
func (m *model) helpLines() []string {
	out := []string{newLine(m.width).add(title, "rdmactl top").String()}
	indent, below := helpKeys, m.width < 2*helpKeys
	if below {
		indent = 2
	}
	for _, h := range helpText {
		l := newLine(m.width).add(hotkey, h.key)
		if below {
			out, l = append(out, l.String()), newLine(m.width)
		}
		for _, text := range wrap(h.does, max(m.width-indent, 1)) {
			out = append(out, l.to(indent).add(plain, text).String())
			l = newLine(m.width)
		}
		if h.does == "" && !below {
			out = append(out, "")
		}
	}
	return out
}
