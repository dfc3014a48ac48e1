package etcdtest

import (
	"context"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Grant permits a role to use the keys with a prefix.
type Grant struct {
	Prefix string
	Kind   clientv3.PermissionType
}

// ReadWrite are the grants to read and write all keys with these prefixes.
func ReadWrite(prefixes ...string) (all []Grant) {
	for _, p := range prefixes {
		all = append(all, Grant{p, clientv3.PermissionType(clientv3.PermReadWrite)})
	}
	return all
}

// Authenticate turns users on. Afterwards the cluster's client is root's.
func (c *Cluster) Authenticate(ctx context.Context) error {
	if err := c.AddUser(ctx, "root"); err != nil {
		return err
	}
	_, err := c.client.AuthEnable(ctx)
	return err
}

// AddUser makes a user without a password, and a role of the same name with grants.
func (c *Cluster) AddUser(ctx context.Context, name string, grants ...Grant) error {
	_, err := c.client.UserAddWithOptions(ctx, name, "", &clientv3.UserAddOptions{NoPassword: true})
	if err == nil {
		_, err = c.client.RoleAdd(ctx, name)
	}
	if err == nil {
		_, err = c.client.UserGrantRole(ctx, name, name)
	}
	if err == nil {
		err = c.Grant(ctx, name, grants...)
	}
	return err
}

// Grant gives a role further grants.
func (c *Cluster) Grant(ctx context.Context, role string, grants ...Grant) (err error) {
	for _, g := range grants {
		_, e := c.client.RoleGrantPermission(ctx, role, g.Prefix, clientv3.GetPrefixRangeEnd(g.Prefix), g.Kind)
		err = errors.Join(err, e)
	}
	return err
}
