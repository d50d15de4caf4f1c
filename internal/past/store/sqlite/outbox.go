package sqlite

import (
	"context"
	"database/sql/driver"
	"slices"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

var _ store.Outbox = (*Store)(nil)

func (w *writer) parcel(p *store.Parcel) error {
	_, err := w.write.exec("INSERT INTO outbox (number, node, parts, data) VALUES (?, ?, ?, ?)", p.Number, store.Text(p.Node), int64(p.Parts), p.Data)
	return err
}

// LastParcel implements [store.Outbox], as the methods below do.
func (s *Store) LastParcel(ctx context.Context) (number int64, parcels int, bytes int64, err error) {
	err = s.view(ctx, func(c *conn) error {
		if number, err = c.number(ctx, "SELECT seq FROM sqlite_sequence WHERE name = 'outbox'"); err != nil {
			return err
		}
		return c.query(ctx, "SELECT count(*), sum(length(data)) FROM outbox", nil, func(row []driver.Value) error {
			parcels, bytes = int(integer(row[0])), integer(row[1])
			return nil
		})
	})
	return number, parcels, bytes, err
}

// Parcels reads the outbox.
func (s *Store) Parcels(ctx context.Context, parts store.Parts, most int) (all []store.Parcel, err error) {
	err = s.view(ctx, func(c *conn) error {
		const some = "SELECT number, node, parts, data FROM outbox WHERE parts & ? <> 0 ORDER BY number LIMIT ?"
		return c.query(ctx, some, []any{int64(parts), most}, func(row []driver.Value) error {
			all = append(all, store.Parcel{
				Number: integer(row[0]), Node: text(row[1]), Parts: store.Parts(integer(row[2])), //nolint:gosec // as parcel wrote it
				Data: slices.Clone(blob(row[3])),
			})
			return nil
		})
	})
	return all, err
}

// Repack changes a parcel.
func (s *Store) Repack(ctx context.Context, p store.Parcel) error {
	return s.change(ctx, func(db *database) (err error) {
		if len(p.Data) == 0 {
			_, err = db.write.exec(unposted, p.Number)
			return err
		}
		_, err = db.write.exec("UPDATE outbox SET parts = ?, data = ? WHERE number = ?", int64(p.Parts), p.Data, p.Number)
		return err
	})
}

const unposted = "DELETE FROM outbox WHERE number = ?"

// Posted removes parcels.
func (s *Store) Posted(ctx context.Context, numbers []int64) (parcels int, bytes int64, err error) {
	err = s.change(ctx, func(db *database) error {
		parcels, bytes = 0, 0
		return db.write.transact("BEGIN IMMEDIATE", func() error {
			for _, n := range numbers {
				size, err := db.write.number(ctx, "SELECT length(data) FROM outbox WHERE number = ?", n)
				if err != nil {
					return err
				}
				removed, err := db.write.exec(unposted, n)
				if err != nil {
					return err
				}
				parcels, bytes = parcels+int(removed), bytes+size
			}
			return nil
		})
	})
	return parcels, bytes, err
}
