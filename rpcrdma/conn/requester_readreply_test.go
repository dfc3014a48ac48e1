package conn

import "fmt"

// exposeText tells what is exposed for a call.
func exposeText(c *Call) (lines []string) {
	for i := range c.Exposure.Chunks {
		x := &c.Exposure.Chunks[i]
		s := fmt.Sprintf("expose %d of %d: %d bytes at %d:", c.Exposure.Index, c.XID, x.Length, x.Position)
		for _, p := range x.Pieces {
			s += fmt.Sprintf(" %s + %d, %d bytes;", sourceText(p.From), p.Off, p.Len)
		}
		lines = append(lines, s[:len(s)-1])
	}
	return lines
}

func (p *responderPlayer) exposed(c *Call) []string {
	for i := range c.Exposure.Chunks {
		p.key += 10
		x := &c.Exposure.Chunks[i]
		x.RKey, x.Addr = 990+p.key, uint64(p.key)*100
	}
	return p.show(p.r.Exposed(c, nil))
}

// readingText tells what is read of a reply.
func readingText(name string, rd *Reading) (lines []string) {
	lines = append(lines, fmt.Sprintf("read the reply of %s, %d bytes inline", name, len(rd.Stream)))
	for _, f := range rd.Fetches {
		lines = append(lines, fmt.Sprintf("  read %d bytes from %d@%d to chunk %d + %d", f.Length, f.RKey, f.Addr, f.Chunk, f.Off))
	}
	for i, it := range rd.Reads.Items() {
		at := fmt.Sprintf("at %d", it.At)
		if len(rd.Results) > 0 {
			at = fmt.Sprintf("result %d", rd.Results[i])
		}
		lines = append(lines, fmt.Sprintf("  item of %d bytes: %s", it.Length, at))
	}
	return lines
}
