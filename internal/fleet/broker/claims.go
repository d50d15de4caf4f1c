package broker

import (
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

// claims are what the server must know about an authority.
type claims struct {
	operator *jwt.OperatorClaims
	account  *jwt.AccountClaims
	accounts map[string]string // encoded claims of the accounts, by public key
	system   string            // public key
}

// claims signs the content of the document.
func (d *document) claims() (*claims, error) {
	operator, operatorKey, err := pair(d.Operator)
	if err != nil {
		return nil, err
	}
	_, systemKey, err := pair(d.System)
	if err != nil {
		return nil, err
	}
	_, accountKey, err := pair(d.Account)
	if err != nil {
		return nil, err
	}
	c := &claims{operator: jwt.NewOperatorClaims(operatorKey), account: jwt.NewAccountClaims(accountKey), accounts: map[string]string{}, system: systemKey}
	c.operator.Name, c.operator.SystemAccount, c.account.Name = "gpuwhy", systemKey, "fleet"
	text, err := c.operator.Encode(operator)
	if err != nil {
		return nil, err
	}
	if c.operator, err = jwt.DecodeOperatorClaims(text); err != nil {
		return nil, err
	}
	c.account.Limits.JetStreamLimits = jwt.JetStreamLimits{
		DiskStorage: maxStore, MemoryStorage: maxMemory, Streams: 8, Consumer: jwt.NoLimit, MaxAckPending: jwt.NoLimit,
		MemoryMaxStreamBytes: jwt.NoLimit, DiskMaxStreamBytes: jwt.NoLimit,
	}
	for _, m := range d.Members {
		if !m.Removed.IsZero() {
			c.account.RevokeAt(m.Key, m.Removed)
		}
	}
	system := jwt.NewAccountClaims(systemKey)
	system.Name = "system"
	for _, account := range []*jwt.AccountClaims{c.account, system} {
		if c.accounts[account.Subject], err = account.Encode(operator); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func pair(seed string) (key nkeys.KeyPair, public string, err error) {
	if key, err = nkeys.FromSeed([]byte(seed)); err != nil {
		return nil, "", err
	}
	public, err = key.PublicKey()
	return key, public, err
}
