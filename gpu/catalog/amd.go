package catalog

// ofAMD are the files of the amdgpu driver that have a reading, by its ID.
var ofAMD = map[string]string{
	"thermal.hot_spot": "hwmon: junction",
}
