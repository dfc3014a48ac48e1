package auth

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"os/user"
	"slices"
	"strconv"
)

// Rule gives a role to the clients that it names.
type Rule struct {
	Role         Role
	Certificates []string // patterns of names; see match
	UIDs         []uint32
	Groups       []string // by name or number; supplementary ones count
}

// Rules define a Policy. The zero value gives administrators' rights to root, to rdmad's own
// user and to anonymous clients, and no rights to other clients.
type Rules struct {
	// Group is the name or number of a group whose members are administrators on a Unix socket,
	// or "".
	Group string
	Rules []Rule
	// Default is the role of clients that no rule names, anonymous ones included. nil means
	// Admin for anonymous clients and None for the others.
	Default *Role
	// Kernel identifies local clients. nil means the kernel of this machine.
	Kernel Kernel
}

// Policy gives roles to clients. It is immutable.
type Policy struct {
	rules        []rule
	admins       []uint32 // gids
	owner        uint32   // rdmad's own uid
	named        Role     // of identified clients that no rule names
	anonymous    Role
	groupsOf     func(uid uint32) []uint32
	kernel       Kernel
	usersByRules bool
}

type rule struct {
	Rule
	gids []uint32
}

// Problems returns all reasons why NewPolicy would refuse the rules, by key below control. It
// looks up the groups and checks the patterns.
func (r *Rules) Problems() iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		more := true
		r.compile(func(key string, err error) { more = more && yield(key, err) })
	}
}

// NewPolicy makes a policy of rules. It looks up the groups and checks the patterns. Errors are
// one line for the operator, beginning with the key below control.
func NewPolicy(r Rules) (*Policy, error) {
	var first error
	p := r.compile(func(key string, err error) {
		if first == nil {
			first = fmt.Errorf("%s: %w", key, err)
		}
	})
	if first != nil {
		return nil, first
	}
	return p, nil
}

// compile makes a policy of the rules that are right, and reports the others.
func (r *Rules) compile(report func(key string, err error)) *Policy {
	p := &Policy{owner: uint32(os.Geteuid()), anonymous: Admin, groupsOf: groupsOf, kernel: r.Kernel}
	if p.kernel == nil {
		p.kernel = machine{}
	}
	if r.Default != nil {
		p.named, p.anonymous = *r.Default, *r.Default
		p.usersByRules = *r.Default != None
	}
	if r.Group != "" {
		if gid, err := lookupGroup(r.Group); err != nil {
			report("group", err)
		} else {
			p.admins = []uint32{gid}
		}
	}
	for i, one := range r.Rules {
		key := "roles[" + strconv.Itoa(i) + "]"
		compiled := rule{Rule: one}
		for _, c := range one.Certificates {
			if err := checkPattern(c); err != nil {
				report(key+".certificates", fmt.Errorf("%q %w", c, err))
			}
		}
		for _, name := range one.Groups {
			gid, err := lookupGroup(name)
			if err != nil {
				report(key+".groups", err)
				continue
			}
			compiled.gids = append(compiled.gids, gid)
		}
		p.usersByRules = p.usersByRules || len(one.UIDs)+len(one.Groups) > 0
		p.rules = append(p.rules, compiled)
	}
	return p
}

func lookupGroup(name string) (uint32, error) {
	if n, err := strconv.ParseUint(name, 10, 32); err == nil {
		return uint32(n), nil
	}
	g, err := user.LookupGroup(name)
	if errors.As(err, new(user.UnknownGroupError)) {
		return 0, fmt.Errorf("there is no group %s on this machine", name)
	} else if err != nil {
		return 0, fmt.Errorf("group %s: %w", name, err)
	}
	n, err := strconv.ParseUint(g.Gid, 10, 32)
	return uint32(n), err
}

// AdminGroup returns the group of administrators. ok is false if there is none.
func (p *Policy) AdminGroup() (gid uint32, ok bool) {
	if len(p.admins) == 0 {
		return 0, false
	}
	return p.admins[0], true
}

// OpenToUsers reports whether users other than administrators have a role, so that they must be
// able to open the socket.
func (p *Policy) OpenToUsers() bool { return p.usersByRules }

// Anonymous returns the role of clients without an identity.
func (p *Policy) Anonymous() Role { return p.anonymous }

// certificate is the role of a name that a certificate proved: the highest of
// the rules that name it, else the default.
func (p *Policy) certificate(name string) Role {
	return p.highest(func(r *rule) bool {
		return slices.ContainsFunc(r.Certificates, func(c string) bool { return match(c, name) })
	})
}

// highest is the highest role of the rules that name a client, else the default.
func (p *Policy) highest(names func(*rule) bool) Role {
	role, named := None, false
	for i := range p.rules {
		if names(&p.rules[i]) {
			role, named = max(role, p.rules[i].Role), true
		}
	}
	if !named {
		return p.named
	}
	return role
}

// user is the role of a process by its user and primary group. Its user's
// other groups are those that the user database says, whatever the process
// has made of its own.
func (p *Policy) user(uid, gid uint32) Role {
	if uid == 0 || uid == p.owner {
		return Admin
	}
	if !p.usersByRules && len(p.admins) == 0 {
		return p.named
	}
	groups := append(p.groupsOf(uid), gid)
	in := func(gids []uint32) bool {
		return slices.ContainsFunc(gids, func(g uint32) bool { return slices.Contains(groups, g) })
	}
	if in(p.admins) {
		return Admin
	}
	return p.highest(func(r *rule) bool { return slices.Contains(r.UIDs, uid) || in(r.gids) })
}

// groupsOf are all groups of a user; none when the database doesn't know it.
func groupsOf(uid uint32) []uint32 {
	u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return nil
	}
	ids, err := u.GroupIds()
	if err != nil {
		return nil
	}
	var gids []uint32
	for _, id := range ids {
		if n, err := strconv.ParseUint(id, 10, 32); err == nil {
			gids = append(gids, uint32(n))
		}
	}
	return gids
}
