package settings

func msgpOutcome(now, _ *Settings, p *Peer) (Outcome, string) {
	switch on := now.Extensions.Has(ExtMSGP); {
	case on && p.Target:
		return Applied, "a target that takes no RDMA_MSGP fails on padded calls"
	case p.Target:
	case on && !p.Pads:
		return Applied, "the peer has sent no RDMA_MSGP; one that takes none fails on padded replies"
	case !on && p.PadTaken:
		return Applied, "rdmad sends none, but accepts those of the peer until it reconnects"
	}
	return Applied, ""
}

func readRepliesOutcome(now, atConnect *Settings, p *Peer) (Outcome, string) {
	switch on, announced := now.Extensions.Has(ExtReadReplies), atConnect.Extensions.Has(ExtReadReplies); {
	case p.Target && on && !announced:
		return PendingReconnect, "rdmad announces at connect whether it reads replies"
	case p.Target && !on && announced:
		return Applied, "the target may still send such replies until rdmad connects again; their calls fail"
	case p.Target:
		return Applied, ""
	case on:
		return Applied, "a peer that does not read such replies fails on them, as it does on the error without"
	}
	return Applied, "replies exposed already may still be read"
}

func ccpOutcome(now, atConnect *Settings, p *Peer) (Outcome, string) {
	switch on := now.Extensions.Has(ExtCCP); {
	case p.Target && on != atConnect.Extensions.Has(ExtCCP):
		return PendingReconnect, "rdmad asks the target at connect"
	case p.Target:
	case on && !p.Configured:
		return PendingReconnect, "a client asks when it connects"
	case !on && p.Configured:
		return PendingReconnect, "what the peer announced holds until it reconnects"
	}
	return Applied, ""
}

func backchannelOutcome(now, _ *Settings, p *Peer) (Outcome, string) {
	switch on := now.Extensions.Has(ExtBackchannel); {
	case on && now.CreditsBackchannel == 0 && p.Target:
		return Applied, "no calls of the target while credits.backchannel is 0"
	case on && now.CreditsBackchannel == 0:
		return Applied, "no calls to the client while credits.backchannel is 0"
	case p.Target:
	case on && !p.Callable:
		return Applied, "calls to the client wait until the upper layer opens the back channel"
	case !on && p.Callable:
		return Applied, "calls to the client that are in flight are finished"
	}
	return Applied, ""
}

func backchannelCreditsOutcome(now, _ *Settings, _ *Peer) (Outcome, string) {
	if !now.Extensions.Has(ExtBackchannel) {
		return Applied, "counts while extensions.backchannel is on; it is off"
	}
	return Applied, ""
}

func weightOutcome(now, _ *Settings, _ *Peer) (Outcome, string) {
	if now.CreditsPolicy == CreditsFixed {
		return Applied, "counts for memory and processors; for credits only while credits.policy is adaptive, and it is fixed"
	}
	return Applied, ""
}
